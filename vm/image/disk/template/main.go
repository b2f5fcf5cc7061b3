// Command template creates the template for data disks. It needs mke2fs. Run it with `go generate` after changing the file system's options.
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	size      = "1g" // disk.MinSize
	blockSize = 4096

	// Fixed, so that the same options give the same template.
	uuid     = "6f736175-7275-4173-8000-64617461000a"
	hashSeed = "6f736175-7275-4173-8000-68617368000a"
	now      = "1750000000"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: template OUTPUT")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(output string) error {
	dir, err := os.MkdirTemp("", "template-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, "data.ext4")
	mke2fs := exec.Command("mke2fs", "-q", "-F", "-b", fmt.Sprint(blockSize), "-I", "256", "-i", "16384", "-L", "data", "-U", uuid,
		"-m", "0", // reserve nothing for root: quotas limit the others
		"-J", "size=64", // the default for a disk of 8 GiB
		"-O", "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,"+
			"dir_nlink,extra_isize,metadata_csum,metadata_csum_seed,quota,project",
		"-E", "quotatype=prjquota,lazy_itable_init=1,lazy_journal_init=1,nodiscard,hash_seed="+hashSeed,
		image, size)
	// Use none of the host's mke2fs configuration.
	mke2fs.Env = append(os.Environ(), "E2FSPROGS_FAKE_TIME="+now, "MKE2FS_CONFIG=/dev/null")
	mke2fs.Stderr = os.Stderr
	if err := mke2fs.Run(); err != nil {
		return fmt.Errorf("mke2fs: %w", err)
	}
	packed, err := pack(image)
	if err != nil {
		return err
	}
	return os.WriteFile(output, packed, 0o644)
}

// pack is the inverse of package disk's expand.
func pack(image string) ([]byte, error) {
	f, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	block, zero := make([]byte, blockSize), make([]byte, blockSize)
	for n := uint32(0); ; n++ {
		if _, err := io.ReadFull(f, block); errors.Is(err, io.EOF) {
			err := z.Close()
			return out.Bytes(), err
		} else if err != nil {
			return nil, err
		}
		if bytes.Equal(block, zero) {
			continue
		}
		if err := binary.Write(z, binary.LittleEndian, n); err != nil {
			return nil, err
		}
		if _, err := z.Write(block); err != nil {
			return nil, err
		}
	}
}
