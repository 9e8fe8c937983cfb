/// Stillframe for C++17: look at a running simulation without stopping it.
///
/// A program publishes ordinary arrays with four lines:
///
///     #include <stillframe.hpp>
///     stillframe::region heat("heat", stillframe::options().rank(rank, ranks));
///     heat.track("u", u);                    // a container, a C array, a span, or a pointer with a shape
///     heat.publish(step);
///
/// and another one, at any time, looks:
///
///     stillframe::observer observer("heat/0");
///     for (auto& snapshot : observer.snapshots())
///         draw(snapshot.view<double>("u"));
///
/// Caveats first:
///
/// * **Nobody writes a variable while `publish` runs.** Broken, that version shows a mixture; nothing else breaks.
/// * **A tracked container is followed by reference** and has to live as long as the region publishes it; `untrack` ends
///   that. Spans and pointers are taken as they are: if the memory moves, track it again.
/// * **Views point into what they were taken from.** One of a snapshot is valid until the snapshot is released, one of a
///   managed array until that is resized or removed or the region is closed.
/// * **Handles do not survive `fork`.** In the child every call on them fails with `status::forked`.
/// * **Nothing here may be called from a signal handler.**
/// * A `region` or a fragment belongs to one thread at a time. `observer`, `group`, `snapshot` and `object` may be used from several
///   at once.
///
/// Errors: what can fail throws `error`. Each such function `f` has a twin `try_f` that returns a `result` and throws
/// nothing of Stillframe's (constructors have `try_create` and `try_open`). Without exceptions (`-fno-exceptions`) only the
/// twins exist, and neither `allocator` nor `memory_resource`, which have no other way of saying that there is no memory.
///
/// The library behind it is C: link with `-lstillframe`.
#pragma once

#include "stillframe/allocator.hpp"
#include "stillframe/arena.hpp"
#include "stillframe/array_view.hpp"
#include "stillframe/checkpointer.hpp"
#include "stillframe/element.hpp"
#include "stillframe/error.hpp"
#include "stillframe/float16.hpp"
#include "stillframe/fragment.hpp"
#include "stillframe/group.hpp"
#include "stillframe/inspect.hpp"
#include "stillframe/loan.hpp"
#include "stillframe/memory_resource.hpp"
#include "stillframe/object.hpp"
#include "stillframe/observer.hpp"
#include "stillframe/recovery.hpp"
#include "stillframe/region.hpp"
#include "stillframe/section.hpp"
#include "stillframe/snapshot.hpp"
