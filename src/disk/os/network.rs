//! Which file systems are shared between machines.
//!
//! May touch what `statfs` returned. Knows nothing of files.
//!
//! Always true:
//! - N1. What is not known to be shared counts as one machine's own: an unknown name must not cost every local user the
//!   map.

/// The name of a file system that machines share; `None` for one machine's own.
#[cfg(target_os = "linux")]
pub(super) fn network_name(statfs: &rustix::fs::StatFs) -> Option<&'static str> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers are 32 bits wide")]
    let magic = statfs.f_type as u32;
    match magic {
        0x0000_6969 => Some("NFS"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0x6573_5546 => Some("FUSE"),
        0xff53_4d42 | 0xfe53_4d42 | 0x0000_517b => Some("SMB"),
        0x00c3_6400 => Some("Ceph"),
        0x0102_1997 => Some("9P"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x1983_0326 => Some("BeeGFS"),
        0x2003_0528 => Some("OrangeFS"),
        0xaad7_aaea => Some("PanFS"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        _ => None,
    }
}

/// The name of a file system that machines share; `None` for one machine's own.
#[cfg(target_os = "macos")]
pub(super) fn network_name(statfs: &rustix::fs::StatFs) -> Option<&'static str> {
    let is = |name: &str| {
        let (shown, letters) = (statfs.f_fstypename.iter(), name.bytes());
        shown.zip(letters).all(|(shown, letter)| u8::try_from(*shown) == Ok(letter))
    };
    ["nfs", "smbfs", "afpfs", "webdav"].into_iter().find(|name| is(name))
}

/// The name of a file system that machines share; `None` where this system cannot tell.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn network_name(_statfs: &rustix::fs::StatFs) -> Option<&'static str> {
    None
}
