package disk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/disk"
)

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.ext4")
	if err := os.WriteFile(path+".new", make([]byte, 10<<20), 0o600); err != nil { // of one that was killed
		t.Fatal(err)
	}
	if err := disk.Create(path, 8<<30); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if physical := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 8<<30 || physical > 4<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("size %d, of which %d are on the host's disk, mode %v", info.Size(), physical, info.Mode())
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the temporary file is left: %v", err)
	}
	if out, err := exec.Command("/usr/sbin/e2fsck", "-fn", path).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
	out, err := exec.Command("/usr/sbin/dumpe2fs", "-h", path).CombinedOutput()
	if err != nil {
		t.Fatalf("dumpe2fs: %v\n%s", err, out)
	}
	for _, want := range []string{"has_journal", "metadata_csum", "project", "quota", "Filesystem volume name:   data", "Filesystem state:         clean",
		"Project quota inode:      12", "Total journal size:       64M", "Reserved block count:     0", "Reserved GDT blocks:      127"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.ext4")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := disk.Create(path, 1<<30)
	if fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("Create = %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file is now %q", b)
	}
}

func TestSizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.ext4")
	for _, size := range []int64{-1, 0, disk.MinSize - 4096, disk.MinSize + 1, disk.MaxSize + 4096} {
		if err := disk.Create(path, size); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("Create with %d = %v", size, err)
		}
		if err := disk.Grow(path, size); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("Grow to %d = %v", size, err)
		}
	}
	if err := disk.Grow(path, 2<<30); fault.KindOf(err) != fault.NotFound {
		t.Errorf("Grow of nothing = %v", err)
	}
	if err := disk.Create(path, 2<<30); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to, want int64
		kind     fault.Kind
	}{{2 << 30, 2 << 30, ""}, {disk.MaxSize, disk.MaxSize, ""}, {2 << 30, disk.MaxSize, fault.Rejected}} {
		err := disk.Grow(path, c.to)
		if c.kind == "" && err != nil || c.kind != "" && fault.KindOf(err) != c.kind {
			t.Errorf("Grow to %d = %v", c.to, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != c.want {
			t.Errorf("after growing to %d it has %d bytes", c.to, info.Size())
		}
	}
}
