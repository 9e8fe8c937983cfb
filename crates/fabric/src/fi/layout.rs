//! What libfabric's headers declare, as far as it is used here: `rdma/fabric.h`, `fi_domain.h`, `fi_endpoint.h`, `fi_tagged.h`, `fi_cm.h`
//! and `fi_eq.h`.
//!
//! Structures end behind the last field that is used, where this crate never makes or copies one: libfabric makes them longer, and
//! never moves a field.

use std::ffi::{c_char, c_int, c_void};

/// The interface that is asked for: the first one with all that is used.
pub(super) const API: u32 = 1 << 16 | 9;

pub(super) const FI_TAGGED: u64 = 1 << 3;
pub(super) const FI_RECV: u64 = 1 << 10;
pub(super) const FI_SEND: u64 = 1 << 11;
pub(super) const FI_NUMERICHOST: u64 = 1 << 55;
pub(super) const FI_SOURCE: u64 = 1 << 57;
pub(super) const FI_CONTEXT: u64 = 1 << 59;
pub(super) const FI_CONTEXT2: u64 = 1 << 52;
pub(super) const FI_MR_LOCAL: c_int = 1 << 2;
pub(super) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(super) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(super) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(super) const FI_ORDER_SAS: u64 = 1 << 8;
pub(super) const FI_EP_RDM: c_int = 3;
pub(super) const FI_THREAD_DOMAIN: c_int = 3;
pub(super) const FI_AV_TABLE: c_int = 2;
pub(super) const FI_SOCKADDR: u32 = 1;
pub(super) const FI_SOCKADDR_IN: u32 = 2;
pub(super) const FI_SOCKADDR_IN6: u32 = 3;
pub(super) const FI_ADDR_STR: u32 = 9;
pub(super) const FI_ADDR_UNSPEC: u64 = u64::MAX;
/// Command of `control`.
pub(super) const FI_ENABLE: c_int = 6;
pub(super) const FI_CQ_FORMAT_TAGGED: c_int = 4;
pub(super) const FI_WAIT_NONE: c_int = 0;
pub(super) const FI_ENODATA: isize = 61;
pub(super) const FI_EAGAIN: isize = 11;
pub(super) const FI_EAVAIL: isize = 259;
pub(super) const FI_ETRUNC: i32 = 265;

#[repr(C)]
pub(super) struct Fid {
    pub(super) fclass: usize,
    pub(super) context: *mut c_void,
    pub(super) ops: *const FiOps,
}

#[repr(C)]
pub(super) struct FiOps {
    pub(super) size: usize,
    pub(super) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(super) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(super) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct FiTxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) inject_size: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct FiRxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) total_buffered_recv: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct FiEpAttr {
    pub(super) kind: c_int,
    pub(super) protocol: u32,
    pub(super) protocol_version: u32,
    pub(super) max_msg_size: usize,
}

#[repr(C)]
pub(super) struct FiDomainAttr {
    pub(super) domain: *mut FidDomain,
    pub(super) name: *mut c_char,
    pub(super) threading: c_int,
    pub(super) control_progress: c_int,
    pub(super) data_progress: c_int,
    pub(super) resource_mgmt: c_int,
    pub(super) av_type: c_int,
    pub(super) mr_mode: c_int,
}

#[repr(C)]
pub(super) struct FiFabricAttr {
    pub(super) fabric: *mut FidFabric,
    pub(super) name: *mut c_char,
    pub(super) prov_name: *mut c_char,
}

#[repr(C)]
pub(super) struct FiInfo {
    pub(super) next: *mut FiInfo,
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) addr_format: u32,
    pub(super) src_addrlen: usize,
    pub(super) dest_addrlen: usize,
    pub(super) src_addr: *mut c_void,
    pub(super) dest_addr: *mut c_void,
    pub(super) handle: *mut Fid,
    pub(super) tx_attr: *mut FiTxAttr,
    pub(super) rx_attr: *mut FiRxAttr,
    pub(super) ep_attr: *mut FiEpAttr,
    pub(super) domain_attr: *mut FiDomainAttr,
    pub(super) fabric_attr: *mut FiFabricAttr,
}

#[repr(C)]
pub(super) struct FidFabric {
    pub(super) fid: Fid,
    pub(super) ops: *const FiOpsFabric,
}

#[repr(C)]
pub(super) struct FiOpsFabric {
    pub(super) size: usize,
    pub(super) domain: unsafe extern "C" fn(*mut FidFabric, *mut FiInfo, *mut *mut FidDomain, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct FidDomain {
    pub(super) fid: Fid,
    pub(super) ops: *const FiOpsDomain,
    pub(super) mr: *const FiOpsMr,
}

#[repr(C)]
pub(super) struct FiOpsDomain {
    pub(super) size: usize,
    pub(super) av_open: unsafe extern "C" fn(*mut FidDomain, *mut FiAvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
    pub(super) cq_open: unsafe extern "C" fn(*mut FidDomain, *mut FiCqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
    pub(super) endpoint: unsafe extern "C" fn(*mut FidDomain, *mut FiInfo, *mut *mut FidEp, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct FiOpsMr {
    pub(super) size: usize,
    /// Domain, begin, bytes, access, offset, key, flags, result, context.
    pub(super) reg:
        unsafe extern "C" fn(*mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut FidMr, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct FidMr {
    pub(super) fid: Fid,
    pub(super) mem_desc: *mut c_void,
}

/// Made here.
#[repr(C)]
pub(super) struct FiAvAttr {
    pub(super) kind: c_int,
    pub(super) rx_ctx_bits: c_int,
    pub(super) count: usize,
    pub(super) ep_per_node: usize,
    pub(super) name: *const c_char,
    pub(super) map_addr: *mut c_void,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct FidAv {
    pub(super) fid: Fid,
    pub(super) ops: *const FiOpsAv,
}

#[repr(C)]
pub(super) struct FiOpsAv {
    pub(super) size: usize,
    pub(super) insert: unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

/// Made here.
#[repr(C)]
pub(super) struct FiCqAttr {
    pub(super) size: usize,
    pub(super) flags: u64,
    pub(super) format: c_int,
    pub(super) wait_obj: c_int,
    pub(super) signaling_vector: c_int,
    pub(super) wait_cond: c_int,
    pub(super) wait_set: *mut c_void,
}

#[repr(C)]
pub(super) struct FidCq {
    pub(super) fid: Fid,
    pub(super) ops: *const FiOpsCq,
}

#[repr(C)]
pub(super) struct FiOpsCq {
    pub(super) size: usize,
    pub(super) read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
    pub(super) readfrom: *const c_void,
    pub(super) readerr: unsafe extern "C" fn(*mut FidCq, *mut FiCqErrEntry, u64) -> isize,
}

/// Made here.
#[repr(C)]
pub(super) struct FiCqTaggedEntry {
    pub(super) op_context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    pub(super) buf: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
}

/// Made here, with room for fields that newer interfaces have behind these.
#[repr(C)]
pub(super) struct FiCqErrEntry {
    pub(super) op_context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    pub(super) buf: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
    pub(super) olen: usize,
    pub(super) err: c_int,
    pub(super) prov_errno: c_int,
    pub(super) err_data: *mut c_void,
    pub(super) err_data_size: usize,
    pub(super) room: [u64; 8],
}

#[repr(C)]
pub(super) struct FidEp {
    pub(super) fid: Fid,
    pub(super) ops: *const c_void,
    pub(super) cm: *const FiOpsCm,
    pub(super) msg: *const c_void,
    pub(super) rma: *const c_void,
    pub(super) tagged: *const FiOpsTagged,
}

#[repr(C)]
pub(super) struct FiOpsCm {
    pub(super) size: usize,
    pub(super) setname: *const c_void,
    pub(super) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

/// Endpoint, begin, bytes, descriptor, peer, tag, bits of the tag to ignore, context.
type Receive = unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize;
/// Endpoint, begin, bytes, descriptor, peer, tag, context.
type Send = unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, *mut c_void) -> isize;
/// Endpoint, begin, bytes, peer, tag.
type Inject = unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64) -> isize;

#[repr(C)]
pub(super) struct FiOpsTagged {
    pub(super) size: usize,
    pub(super) recv: Receive,
    pub(super) recvv: *const c_void,
    pub(super) recvmsg: *const c_void,
    pub(super) send: Send,
    pub(super) sendv: *const c_void,
    pub(super) sendmsg: *const c_void,
    pub(super) inject: Inject,
}

/// What libfabric may use while an operation is under way (`struct fi_context2`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FiContext2 {
    pub(super) internal: [*mut c_void; 8],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::path::Path;
    use std::process::Command;

    /// Places of fields as Rust has them, and as C has them: `Rust: C { field: field }`.
    macro_rules! fields {
        ($($rust:ident: $c:literal { $($field:ident: $name:literal),* $(,)? })*) => {
            [$($((concat!("offsetof(", $c, ", ", $name, ")"), offset_of!($rust, $field)),)*)*]
        };
    }

    /// Values as Rust has them, and as C has them by the same name.
    macro_rules! values {
        ($($name:ident)*) => { [$((stringify!($name), $name as usize),)*] };
    }

    const HEADERS: &str = "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
        #include <rdma/fi_endpoint.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_eq.h>\n\
        #include <rdma/fi_errno.h>\n";

    fn all() -> Vec<(&'static str, usize)> {
        let fields = fields! {
            Fid: "struct fid" { fclass: "fclass", context: "context", ops: "ops" }
            FiOps: "struct fi_ops" { size: "size", close: "close", bind: "bind", control: "control" }
            FiTxAttr: "struct fi_tx_attr" { msg_order: "msg_order", inject_size: "inject_size", size: "size" }
            FiRxAttr: "struct fi_rx_attr" { msg_order: "msg_order", size: "size" }
            FiEpAttr: "struct fi_ep_attr" { kind: "type", max_msg_size: "max_msg_size" }
            FiDomainAttr: "struct fi_domain_attr" { threading: "threading", av_type: "av_type", mr_mode: "mr_mode" }
            FiFabricAttr: "struct fi_fabric_attr" { name: "name", prov_name: "prov_name" }
            FiInfo: "struct fi_info" {
                next: "next", caps: "caps", mode: "mode", addr_format: "addr_format", src_addrlen: "src_addrlen",
                src_addr: "src_addr", tx_attr: "tx_attr", rx_attr: "rx_attr", ep_attr: "ep_attr",
                domain_attr: "domain_attr", fabric_attr: "fabric_attr",
            }
            FidFabric: "struct fid_fabric" { fid: "fid", ops: "ops" }
            FiOpsFabric: "struct fi_ops_fabric" { size: "size", domain: "domain" }
            FidDomain: "struct fid_domain" { fid: "fid", ops: "ops", mr: "mr" }
            FiOpsDomain: "struct fi_ops_domain" { av_open: "av_open", cq_open: "cq_open", endpoint: "endpoint" }
            FiOpsMr: "struct fi_ops_mr" { reg: "reg" }
            FidMr: "struct fid_mr" { fid: "fid", mem_desc: "mem_desc" }
            FiAvAttr: "struct fi_av_attr" {
                kind: "type", rx_ctx_bits: "rx_ctx_bits", count: "count", ep_per_node: "ep_per_node", name: "name",
                map_addr: "map_addr", flags: "flags",
            }
            FidAv: "struct fid_av" { fid: "fid", ops: "ops" }
            FiOpsAv: "struct fi_ops_av" { insert: "insert" }
            FiCqAttr: "struct fi_cq_attr" {
                size: "size", flags: "flags", format: "format", wait_obj: "wait_obj",
                signaling_vector: "signaling_vector", wait_cond: "wait_cond", wait_set: "wait_set",
            }
            FidCq: "struct fid_cq" { fid: "fid", ops: "ops" }
            FiOpsCq: "struct fi_ops_cq" { read: "read", readerr: "readerr" }
            FiCqTaggedEntry: "struct fi_cq_tagged_entry" {
                op_context: "op_context", flags: "flags", len: "len", buf: "buf", data: "data", tag: "tag",
            }
            FiCqErrEntry: "struct fi_cq_err_entry" {
                op_context: "op_context", flags: "flags", len: "len", tag: "tag", olen: "olen", err: "err",
                prov_errno: "prov_errno", err_data: "err_data", err_data_size: "err_data_size",
            }
            FidEp: "struct fid_ep" { fid: "fid", cm: "cm", tagged: "tagged" }
            FiOpsCm: "struct fi_ops_cm" { getname: "getname" }
            FiOpsTagged: "struct fi_ops_tagged" { recv: "recv", send: "send", inject: "inject" }
        };
        let values = values! {
            FI_TAGGED FI_RECV FI_SEND FI_NUMERICHOST FI_SOURCE FI_CONTEXT FI_CONTEXT2 FI_MR_LOCAL FI_MR_VIRT_ADDR
            FI_MR_ALLOCATED FI_MR_PROV_KEY FI_ORDER_SAS FI_EP_RDM FI_THREAD_DOMAIN FI_AV_TABLE FI_SOCKADDR FI_SOCKADDR_IN
            FI_SOCKADDR_IN6 FI_ADDR_STR FI_ADDR_UNSPEC FI_ENABLE FI_CQ_FORMAT_TAGGED FI_WAIT_NONE FI_ENODATA FI_EAGAIN
            FI_EAVAIL FI_ETRUNC
        };
        let sizes = [
            ("sizeof(struct fi_av_attr)", size_of::<FiAvAttr>()),
            ("sizeof(struct fi_cq_attr)", size_of::<FiCqAttr>()),
            ("sizeof(struct fi_cq_tagged_entry)", size_of::<FiCqTaggedEntry>()),
            ("sizeof(struct fi_context2)", size_of::<FiContext2>()),
            ("FI_VERSION(1, 9)", API as usize),
        ];
        [fields.as_slice(), &values, &sizes].concat()
    }

    #[test]
    fn fields_lie_where_the_headers_of_this_machine_have_them() {
        if !Path::new("/usr/include/rdma/fi_tagged.h").exists() {
            eprintln!("skipped: no headers of libfabric (Debian: libfabric-dev; scripts/setup.sh fabric)");
            return;
        }
        let dir = std::env::temp_dir().join(format!("stillframe-test-layout-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, program) = (dir.join("layout.c"), dir.join("layout"));
        let prints = |(c, _): &(&str, usize)| format!("printf(\"%zu\\n\", (size_t)({c}));\n");
        let all = all();
        let body: String = all.iter().map(prints).collect();
        std::fs::write(&source, format!("{HEADERS}int main(void) {{\n{body}return 0; }}\n")).unwrap();
        let compiled = Command::new("cc").arg("-o").arg(&program).arg(&source).output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let out = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let theirs: Vec<usize> = out.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(theirs.len(), all.len());
        for ((what, ours), theirs) in all.iter().zip(theirs) {
            assert_eq!(*ours, theirs, "{what}");
        }
    }
}
