//! The protocol under a model checker: every order of what can happen in small worlds.
//!
//! Messages may be lost, come twice and overtake each other; nodes and writers die at any instant, homes change and do not
//! know it, runtimes give up pins, and versions that nobody pins go. In every state that is reached the promises are
//! looked at, and from every so many-th one the world goes on without further accidents, to see that all that should
//! become complete does. Each promise is then broken once on purpose, to show that the model notices.
//!
//! `STILLFRAME_TEST_ROSTER=1` explores larger worlds, which takes minutes to hours.

mod actions;
mod checker;
mod planted;
mod promise;
mod setups;
mod world;
