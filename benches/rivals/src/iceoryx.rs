//! `iceoryx2-loan` and `iceoryx2-copy`: publish-subscribe with a slice payload.
//!
//! The observer polls: publish-subscribe in iceoryx2 is a polling pattern, and busy waiting is what
//! its own latency benchmark does. (Its events would let the observer sleep, at the price of a
//! system call in every publish.)

use crate::{Job, Result, work};
use iceoryx2::port::{publisher::Publisher, subscriber::Subscriber};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

type Slices = PortFactory<ipc::Service, [f64], ()>;

/// The node is returned too: it must live as long as what was made with it.
fn service(job: &Job) -> Result<(Node<ipc::Service>, Slices)> {
    set_log_level(LogLevel::Error);
    // Files and shared memory under the run's own names, so that nothing meets or leaves anything.
    let mut config = Config::default();
    config.global.set_root_path(&Path::new(job.scratch.as_os_str().as_encoded_bytes())?);
    config.global.prefix = FileName::new(format!("{}_", job.name).as_bytes())?;
    let node = NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()?;
    // As tight as one producer and one observer allow: the publisher's memory is sized for the worst
    // case of these numbers. Two queued samples, because the producer may be a step ahead.
    let service = node
        .service_builder(&"rivals".try_into()?)
        .publish_subscribe::<[f64]>()
        .max_publishers(1)
        .max_subscribers(1)
        .subscriber_max_buffer_size(2)
        .subscriber_max_borrowed_samples(1)
        .history_size(0)
        .enable_safe_overflow(false)
        .open_or_create()?;
    Ok((node, service))
}

pub fn producer(job: &Job, copy: bool) -> Result<()> {
    let (_node, service) = service(job)?;
    let publisher: Publisher<_, [f64], _> = service
        .publisher_builder()
        .initial_max_slice_len(job.elements)
        .allocation_strategy(AllocationStrategy::Static)
        .max_loaned_samples(1)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    let mut data = vec![1.0; if copy { job.elements } else { 0 }];
    job.control.produce(|step, row| {
        if copy {
            row.filling();
            work::fill(step, &mut data);
            row.filled();
            let sample = publisher.loan_slice_uninit(job.elements)?.write_from_slice(&data);
            sample.send()?;
        } else {
            let mut sample = publisher.loan_slice_uninit(job.elements)?;
            row.filling();
            work::fill_uninit(step, sample.payload_mut());
            row.filled();
            // SAFETY: `fill_uninit` has written every element; the payload is whole blocks.
            unsafe { sample.assume_init() }.send()?;
        }
        Ok(())
    })
}

pub fn observer(job: &Job) -> Result<()> {
    job.control.wait_created();
    let (_node, service) = service(job)?;
    let subscriber: Subscriber<_, [f64], _> = service.subscriber_builder().buffer_size(2).create()?;
    job.control.observe(|_, row| {
        let sample = loop {
            match subscriber.receive()? {
                Some(sample) => break sample,
                None => std::hint::spin_loop(),
            }
        };
        row.summed(work::sum(sample.payload()));
        Ok(())
    })
}
