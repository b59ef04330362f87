//! What of a trial's record is compared with other trials'.

use fsage_model::protocol::{BlockFacts, HostFacts};
use fsage_model::record::{StageRecord, TrialRecord};
use fsage_model::study::DeviceClass;
use fsage_model::warning::WarningKind;

use crate::stats::evidence::{self, Series};
use crate::stats::{Evidence, doubt, tree};

/// What a real device is: what a loop file lies on is not known.
fn class_of(device: &BlockFacts) -> Option<DeviceClass> {
    let known = device.size_bytes > 0 && device.backing_file.is_none();
    known.then_some(if device.rotational { DeviceClass::HardDisk } else { DeviceClass::Flash })
}

/// What of a host model time depends on too.
fn platform(host: &HostFacts) -> String {
    const GIB: u64 = 1 << 30;
    let tools: Vec<String> = host.tools.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let (kernel, cpus, memory) = (&host.kernel, host.cpus, host.memory_bytes / GIB);
    format!("{kernel}, {cpus} processors, {memory} GiB, {}", tools.join(", "))
}

/// What of a trial is compared, but for what follows from its ageing stages.
pub(super) fn of(file: &TrialRecord) -> Evidence {
    let mut evidence = Evidence {
        factors: file.factors.clone(),
        spec: file.spec.clone(),
        repeat: file.repeat,
        doubts: doubt::of_trial(&file.stages, &file.warnings),
        tree: tree::measured(file.stages.iter().map(StageRecord::tree)),
        memory_bytes: Some(file.host.memory_bytes).filter(|&bytes| bytes > 0),
        class: class_of(&file.device),
        host: file.host.identity.clone(),
        platform: platform(&file.host),
        ..Evidence::default()
    };
    if evidence.is_virtual() {
        // There the processor's work is what is measured.
        evidence.doubts.retain(|doubt| doubt.kind != WarningKind::CpuBound);
    }
    for metric in &file.metrics {
        let series = Series {
            unit: metric.unit.clone(),
            larger_is_worse: metric.larger_is_worse,
            samples: metric.samples.clone(),
            // Many samples of one trial are of moments that follow each other.
            blocks: evidence::samples(&metric.samples),
            run: metric.run.clone(),
            work: metric.work,
        };
        evidence.metrics.insert(metric.name.clone(), series);
    }
    evidence
}
