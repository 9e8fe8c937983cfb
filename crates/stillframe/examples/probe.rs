use std::time::Instant;
fn main() {
    let size = 1usize << 30;
    let n = size / 8;
    let mut region = stillframe::Region::options()
        .dir("/dev/shm/probe")
        .threads(std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1))
        .create("p")
        .unwrap();
    let a = region.array::<f64>("a", &[n]).unwrap();
    region.slice_mut(&a).fill(1.0);
    let mut v = 0;
    let sel: Vec<usize> = std::env::args()
        .nth(2)
        .map(|a| a.split(',').map(|x| x.parse().unwrap()).collect())
        .unwrap_or(vec![0, 1, 10, 30, 50, 72, 100]);
    let pats = std::env::args().nth(3).unwrap_or("sr".into());
    let mut base = vec![1.0f64; n];
    let mut buf = vec![2.0f64; n];
    let pages = size / 4096;
    for random in [false, true] {
        if !pats.contains(if random { 'r' } else { 's' }) {
            continue;
        }
        for f in sel.clone() {
            let dirty = |i: usize, it: usize| {
                (((i.wrapping_mul(2654435761).wrapping_add(if random {
                    it.wrapping_mul(40503).wrapping_mul(7919)
                } else {
                    0
                })) as u32)
                    >> 7)
                    % 100
                    < f as u32
            };
            let (mut tw, mut tp, mut bw, mut mc) = (0.0, 0.0, 0.0, 0.0);
            let warm = std::env::args().nth(4).and_then(|a| a.parse().ok()).unwrap_or(140);
            let meas = 64;
            let mut stat0 = region.statistics();
            for it in 0..warm + meas {
                if it == warm {
                    tw = 0.0;
                    tp = 0.0;
                    bw = 0.0;
                    mc = 0.0;
                    stat0 = region.statistics();
                }
                let s = region.slice_mut(&a);
                let t = Instant::now();
                for i in 0..pages {
                    if dirty(i, it) {
                        s[i * 512..(i + 1) * 512].fill(it as f64);
                    }
                }
                tw += t.elapsed().as_secs_f64();
                v += 1;
                let t = Instant::now();
                region.publish(v).commit().unwrap();
                tp += t.elapsed().as_secs_f64();
                if it >= warm {
                    let t = Instant::now();
                    for i in 0..pages {
                        if dirty(i, it) {
                            base[i * 512..(i + 1) * 512].fill(it as f64);
                        }
                    }
                    bw += t.elapsed().as_secs_f64();
                    let t = Instant::now();
                    std::hint::black_box(base.as_mut_ptr());
                    buf.copy_from_slice(std::hint::black_box(&base));
                    std::hint::black_box(buf.as_mut_ptr());
                    mc += t.elapsed().as_secs_f64();
                }
            }
            let st = region.statistics();
            println!(
                "{} {f:3}% write {:.1}-{:.1} publish {:.2} memcpy {:.1} ms: overhead {:.3} (bound {:.3}) publish/memcpy {:.3} copied {:.3} planes {:.2} GiB",
                if random { "random" } else { "static" },
                tw / 64.0 * 1e3,
                bw / 64.0 * 1e3,
                tp / 64.0 * 1e3,
                mc / 64.0 * 1e3,
                (tw - bw + tp) / mc,
                if random { (4.5 * f as f64 / 100.0).min(1.2) + 0.03 } else { 1.15 * f as f64 / 100.0 + 0.02 },
                tp / mc,
                (st.copied_pages - stat0.copied_pages) as f64 / 64.0 / pages as f64,
                st.plane_bytes as f64 / (1u64 << 30) as f64
            );
        }
    }
    region.unlink().unwrap();
}
