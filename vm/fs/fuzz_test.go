//go:build linux

package fs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/vm"
)

// fuzzSpace bounds how much of the disk a fuzzed guest may fill.
const fuzzSpace = 64 << 20

// FuzzRequest sends arbitrary requests to one mount, each preceded by its length and the space for
// its reply. The device must answer within that space, continue to work, and touch nothing outside
// the share.
func FuzzRequest(f *testing.F) {
	seed := func(requests ...[]byte) {
		var all []byte
		for _, r := range requests {
			all = binary.LittleEndian.AppendUint16(all, uint16(len(r)))
			all = binary.LittleEndian.AppendUint16(all, 4096)
			all = append(all, r...)
		}
		f.Add(all)
	}
	// Nodes and handles are numbered in order of creation.
	lookup := func(name string) []byte { return message[none](opLookup, root, nil, name) }
	create := message(opCreate, root, &fuse.CreateIn{Flags: unix.O_RDWR | unix.O_CREAT, Mode: 0o644}, "new")
	seed(lookup("dir"), message[none](opLookup, 2, nil, "file"), message(opOpen, 3, &fuse.OpenIn{Flags: unix.O_RDWR}),
		message(opRead, 3, &fuse.ReadIn{Fh: 1, Size: 100}), message(opWrite, 3, &fuse.WriteIn{Fh: 1, Size: 4}, "abc"),
		message(opFallocate, 3, &fuse.FallocateIn{Fh: 1, Length: 1 << 40}), message(opLseek, 3, &fuse.LseekIn{Fh: 1, Whence: unix.SEEK_HOLE}),
		message(opCopyFileRange, 3, &fuse.CopyFileRangeIn{FhIn: 1, FhOut: 1, OffOut: 1 << 20, Len: 100}), message(opFsync, 3, &fuse.FsyncIn{Fh: 1}), message(opRelease, 3, &fuse.ReleaseIn{Fh: 1}))
	seed(lookup("../secret"), lookup("escape"), message[none](opLookup, 2, nil, "secret"), message[none](opReadlink, 2, nil), message(opOpen, 2, &fuse.OpenIn{Flags: unix.O_RDWR}))
	seed(create, message[none](opSymlink, root, nil, "link", "/etc/passwd"), message(opLink, root, &fuse.LinkIn{Oldnodeid: 2}, "../hard"),
		message(opRename2, root, &fuse.RenameIn{Newdir: root, Flags: unix.RENAME_EXCHANGE}, "new", "../secret"), message[none](opUnlink, root, nil, "new"),
		message(opSetAttr, 2, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: 0x7ff, Fh: 1, Size: 1 << 62, Mode: 0o7777}}))
	seed(message(opOpenDir, root, &fuse.OpenIn{}), message(opReadDirPlus, root, &fuse.ReadIn{Fh: 1, Size: 4000}), message(opReadDir, root, &fuse.ReadIn{Fh: 1, Size: 4000, Offset: 1 << 63}),
		message(opForget, 2, &fuse.ForgetIn{Nlookup: 1 << 63}), append(message[none](opBatchForget, 0, nil), make([]byte, 40)...), message(opMkdir, root, &fuse.MkdirIn{Mode: 0o777}, "d"),
		message(opMknod, root, &fuse.MknodIn{Mode: unix.S_IFCHR}, "null"), message[none](opStatFS, root, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := newOutside(t)
		share := filepath.Join(out.dir, "share")
		if err := os.Mkdir(share, 0o755); err != nil {
			t.Fatal(err)
		}
		folder, err := os.Open(share)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		s, err := newDescriptor(int(folder.Fd())).space()
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, vm.Share{Path: share, MinFree: max(0, s.availableBytes()-fuzzSpace), Subtrees: subtrees(t, vm.Subtree{Path: "dir", UID: 1, MaxBytes: fuzzSpace, MaxFiles: 100})}, Options{Files: minFiles})
		c.host("dir/file", "text")
		if err := os.Symlink(out.dir, filepath.Join(share, "escape")); err != nil {
			t.Fatal(err)
		}
		for len(data) >= 4 {
			size, space := int(binary.LittleEndian.Uint16(data)), int(binary.LittleEndian.Uint16(data[2:]))
			data = data[4:]
			request := data[:min(size, len(data))]
			data = data[len(request):]
			if len(request) < inHeaderSize {
				continue // HandleQueue drops it
			}
			if reply := c.raw(request, space); len(reply) > 0 && len(reply) < outHeaderSize {
				t.Errorf("a reply of %d bytes", len(reply))
			}
		}
		if stats(c.dev) == (counts{}) {
			c.mount() // no request was a mount
		}
		c.statfs(root)
		c.dev.Close()
		if err := os.RemoveAll(share); err != nil {
			t.Fatal(err)
		}
		out.check(t)
	})
}

// message returns a request with its header.
func message[In any](op opcode, node uint64, in *In, names ...string) []byte {
	h := fuse.InHeader{Opcode: uint32(op), Unique: 1, NodeId: node}
	b := append([]byte(nil), bytesOf(&h)...)
	if in != nil {
		b = append(b, bytesOf(in)[inHeaderSize:]...)
	}
	for _, name := range names {
		b = append(append(b, name...), 0)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}
