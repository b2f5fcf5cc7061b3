package history

import (
	"reflect"
	"testing"
)

var someEntries = []Entry{
	{Name: "\xff\n", Kind: File, Mode: 0o644, Size: 3, Mtime: -5, Ctime: 1 << 60, Inode: 1 << 63, Content: Digest{1}},
	{Name: "\xff\n0", Kind: Folder, Mode: 0o755, Content: Digest{2}},
	{Name: "\xff\n1", Kind: Link, Target: "../..", Size: 5},
	{Name: "\xff\n2", Kind: Special}, {Name: "\xff\n3", Kind: Excluded},
}

func TestTreeCodec(t *testing.T) {
	got, err := decodeTree(string(appendTree(nil, someEntries)))
	if err != nil || !reflect.DeepEqual(got, someEntries) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []Entry{{Name: "a/b", Kind: Special}, {Name: "..", Kind: Special}, {Name: "", Kind: Special}, {Name: "a", Kind: 'q'}, {Name: "a", Kind: File, Mode: 1 << 31}} {
		if _, err := decodeTree(string(appendTree(nil, []Entry{bad}))); err == nil {
			t.Errorf("%+v is decoded", bad)
		}
	}
	if _, err := decodeTree(string(appendTree(nil, []Entry{someEntries[1], someEntries[0]}))); err == nil {
		t.Error("names in the wrong order are decoded")
	}
}

func FuzzDecodeTree(f *testing.F) {
	f.Add(string(appendTree(nil, someEntries)))
	f.Add(magic)
	f.Add(magic + "f\x01a\xa4\x03")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := decodeTree(text)
		if err != nil {
			return
		}
		again, err := decodeTree(string(appendTree(nil, entries)))
		if err != nil || !reflect.DeepEqual(entries, again) {
			t.Errorf("%+v becomes %+v, %v", entries, again, err)
		}
	})
}
