//! Each style of image loses exactly what it says, and the same for the same seed.

use std::collections::BTreeSet;

use super::super::random::Random;
use super::*;

#[test]
fn nothing_unsynced_and_everything_are_the_two_ends() {
    let (disk, file) = with_file(b"old");
    write(&file, b"NEW and longer", 0).unwrap();
    file.set_len(8).unwrap();
    disk.create(path("unsynced")).unwrap();

    let nothing = disk.crash(image(ImageStyle::NothingUnsynced, 0));
    assert_eq!((read(&nothing, "f"), exists(&nothing, "unsynced")), (b"old".to_vec(), false));
    let everything = disk.crash(image(ImageStyle::Everything, 0));
    assert_eq!((read(&everything, "f"), exists(&everything, "unsynced")), (b"NEW and ".to_vec(), true));
}

#[test]
fn a_disk_goes_on_behind_an_image_of_what_a_crash_would_leave() {
    let (disk, file) = with_file(b"old");
    write(&file, b"new", 0).unwrap();
    let nothing = disk.as_if_crashed(image(ImageStyle::NothingUnsynced, 0));
    file.sync_data().unwrap();
    assert_eq!((read(&nothing, "f"), read(&disk, "f")), (b"old".to_vec(), b"new".to_vec()));
}

#[test]
fn synced_bytes_survive_every_image() {
    for style in ImageStyle::ALL {
        let (disk, _file) = with_file(&[3; 5000]);
        for left in remains(&disk, style) {
            assert_eq!(left, [3; 5000]);
        }
    }
}

#[test]
fn a_prefix_keeps_the_order_of_writes_across_files() {
    let (disk, file) = with_file(b"");
    let other = disk.create(path("g")).unwrap();
    disk.sync_dir(path("")).unwrap();
    write(&file, b"1111", 0).unwrap();
    write(&other, b"2222", 0).unwrap();
    write(&file, b"3333", 4).unwrap();

    let mut lengths = BTreeSet::new();
    for seed in SEEDS {
        let after = disk.crash(image(ImageStyle::Prefix, seed));
        let (f, g) = (read(&after, "f"), read(&after, "g"));
        assert!(b"11113333".starts_with(&f) && b"2222".starts_with(&g));
        assert!(g.is_empty() || f.len() >= 4, "the first write came before the second");
        assert!(f.len() <= 4 || g.len() == 4, "the second write came before the third");
        lengths.insert(f.len() + g.len());
    }
    assert_eq!(lengths.len(), 13, "every byte is a place to stop at");
}

#[test]
fn torn_sectors_are_old_or_new_each_for_itself() {
    let (disk, file) = with_file(&[1; 2048]);
    write(&file, &[2; 2048], 0).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    let mut kinds = BTreeSet::new();
    for left in &remains {
        let sectors: Vec<u8> = left.chunks(512).map(|sector| sector[0]).collect();
        assert!(left.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        kinds.insert(sectors);
    }
    assert_eq!(kinds.len(), 16, "all combinations of four sectors");
}

#[test]
fn torn_lengths_and_bytes_survive_independently() {
    let (disk, file) = with_file(b"");
    write(&file, &[2; 512], 0).unwrap();
    write(&file, &[2; 512], 512).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    for len in [0, 512, 1024] {
        assert!(remains.iter().any(|left| left.len() == len), "a length of {len}");
    }
    assert!(remains.contains(&vec![0; 1024]), "the length without the bytes");
    assert!(remains.contains(&[vec![0; 512], vec![2; 512]].concat()), "the later write without the earlier");
}

#[test]
fn torn_bytes_mix_within_a_sector() {
    let (disk, file) = with_file(&[1; 64]);
    write(&file, &[2; 64], 0).unwrap();
    for left in remains(&disk, ImageStyle::TornBytes) {
        assert!(left.contains(&1) && left.contains(&2));
    }
}

#[test]
fn zeros_and_garbage_fill_new_sectors_alone() {
    for style in [ImageStyle::ZeroFilled, ImageStyle::Garbage] {
        let (disk, file) = with_file(&[1; 700]);
        write(&file, &[2; 2000], 100).unwrap();
        let mut strange = 0;
        for left in remains(&disk, style) {
            assert_eq!(left.len(), 2100, "the length survives");
            assert_eq!(left[..100], [1; 100], "nobody wrote there");
            assert!(left[100..700].iter().all(|byte| matches!(byte, 1 | 2)), "old or new");
            strange += left[700..].iter().filter(|byte| **byte != 2).count();
        }
        assert!(strange > 100_000, "about half of 1400 bytes in 200 images");
    }
}

#[test]
fn a_truncation_is_pending_until_the_sync() {
    let (disk, file) = with_file(&[1; 1000]);
    file.set_len(10).unwrap();
    let remains = remains(&disk, ImageStyle::TornSectors);
    assert!(remains.contains(&vec![1; 1000]) && remains.contains(&vec![1; 10]));
    assert_eq!(disk.crash(image(ImageStyle::Garbage, 0)).open(path("f"), Access::Read).unwrap().len().unwrap(), 10);
}

#[test]
fn bytes_beyond_a_surviving_truncation_do_not_come_back() {
    let (disk, file) = with_file(&[1; 2000]);
    file.set_len(500).unwrap();
    write(&file, &[2; 1000], 500).unwrap();
    for style in [ImageStyle::TornSectors, ImageStyle::ZeroFilled] {
        for left in remains(&disk, style).iter().filter(|left| left.len() == 1500) {
            assert!(left[500..].iter().all(|byte| matches!(byte, 0 | 2)), "in {style:?}");
        }
    }
    let garbage = remains(&disk, ImageStyle::Garbage);
    assert!(garbage.iter().any(|left| left[500..].iter().any(|byte| *byte > 2)));
}

#[test]
fn the_same_seed_gives_the_same_disk_and_another_seed_another() {
    let (disk, file) = with_file(&[1; 4096]);
    write(&file, &vec![2; 100_000], 0).unwrap();
    for style in [ImageStyle::Prefix, ImageStyle::TornSectors, ImageStyle::ZeroFilled, ImageStyle::Garbage] {
        let once = |seed| read(&disk.crash(image(style, seed)), "f");
        assert_eq!(once(7), once(7));
        assert_ne!(once(7), once(8));
    }
}

#[test]
fn any_mix_of_writes_and_lengths_gives_an_image_between_its_ends() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (disk, file) = with_file(&vec![1; random.up_to(1500)]);
        let durable = read(&disk, "f");
        let mut longest = durable.len();
        for _ in 0..random.up_to(6) {
            let at = random.up_to(2000);
            if random.coin() {
                write(&file, &vec![2; random.up_to(1500)], at as u64).unwrap();
            } else {
                file.set_len(at as u64).unwrap();
            }
            longest = longest.max(usize::try_from(file.len().unwrap()).unwrap());
        }
        let live = read(&disk, "f");
        for style in ImageStyle::ALL {
            let left = read(&disk.crash(image(style, seed)), "f");
            match style {
                ImageStyle::NothingUnsynced => assert_eq!(left, durable),
                ImageStyle::Everything => assert_eq!(left, live),
                ImageStyle::ZeroFilled | ImageStyle::Garbage => assert_eq!(left.len(), live.len()),
                _ => assert!(left.len() <= longest),
            }
            let made_up = left.iter().any(|byte| *byte > 2);
            assert!(!made_up || style == ImageStyle::Garbage, "bytes that nobody wrote, in {style:?}");
        }
    }
}

#[test]
fn disks_of_other_names_or_bytes_have_other_fingerprints() {
    let (disk, file) = with_file(b"old");
    let first = disk.fingerprint();
    assert_eq!(disk.kill().fingerprint(), first, "a copy is the same");
    drop(file);
    let (disk, file) = with_file(b"old");
    assert_eq!(disk.fingerprint(), first, "and so is one of the same making");
    let mut seen = vec![first];
    let mut is_new = |disk: &SimDisk| {
        assert!(!seen.contains(&disk.fingerprint()));
        seen.push(disk.fingerprint());
    };
    write(&file, b"OLD", 0).unwrap();
    is_new(&disk);
    file.set_len(4).unwrap();
    is_new(&disk);
    disk.rename(path("f"), path("g")).unwrap();
    is_new(&disk);
    disk.create_dir_all(path("d")).unwrap();
    is_new(&disk);
    disk.rename(path("g"), path("d/g")).unwrap();
    is_new(&disk);
}
