#!/bin/sh
# Creates the template for data disks, with mke2fs and GNU tar, which keeps the holes of the file.
# Run it with `go generate` after changing the file system's options.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Times and identifiers are fixed, so that the same options give the same template, and none of the
# host's configuration is used. Root has no reserve, since quotas limit the others. The journal has
# the default size for a disk of 8 GiB.
E2FSPROGS_FAKE_TIME=1750000000 MKE2FS_CONFIG=/dev/null PATH=$PATH:/usr/sbin mke2fs -q -F -b 4096 -I 256 -i 16384 -L data -m 0 -J size=64 \
	-U 6f736175-7275-4173-8000-64617461000a \
	-O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum,metadata_csum_seed,quota,project \
	-E quotatype=prjquota,lazy_itable_init=1,lazy_journal_init=1,nodiscard,hash_seed=6f736175-7275-4173-8000-68617368000a \
	"$dir/data.ext4" 1g
tar -C "$dir" --format=gnu --sparse --hole-detection=raw --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=600 -c data.ext4 | gzip -9n | base64 >template.base64
