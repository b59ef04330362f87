//! Whatever a client says, the server answers or lets it go, and the disk gets only what it has.

#![no_main]

use fsage_model::disk::DiskTime;
use fsage_disk::export::nbd::{Export, serve};
use fsage_disk::export::{Backend, Gate};
use fsage_disk::request::{Data, Transfer};

const SIZE: usize = 64 << 10;

struct Memory(Vec<u8>);

impl Backend for Memory {
    fn size_bytes(&self) -> u64 {
        SIZE as u64
    }

    fn block_bytes(&self) -> u32 {
        512
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        for transfer in transfers {
            let request = transfer.request;
            let range = request.offset_bytes as usize..request.end_bytes() as usize;
            match &mut transfer.data {
                Data::In(data) => data.copy_from_slice(&self.0[range]),
                Data::Out(data) => self.0[range].copy_from_slice(data),
                Data::None => self.0[range].fill(0),
            }
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let export = Export { name: "disk".to_owned(), size_bytes: SIZE as u64, block_bytes: 512 };
    let gate = Gate::new(Memory(vec![0; SIZE]), DiskTime::Model);
    // The fuzzer need not find the greeting first.
    let greeting = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
    for input in [bytes.to_vec(), [greeting, bytes].concat()] {
        let mut output = Vec::new();
        let _ = serve(&input[..], &mut output, &export, &gate);
        assert!(output.starts_with(b"NBDMAGICIHAVEOPT"));
    }
    assert_eq!(gate.counts().refused, 0, "what the disk does not have is refused before");
});
