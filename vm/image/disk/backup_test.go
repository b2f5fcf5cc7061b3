package disk

import (
	"encoding/binary"
	"testing"
)

// TestBackupValue reads the property list as its format says: a trailer that has the size and
// place of the table of offsets, and one string of the length that its marker says.
func TestBackupValue(t *testing.T) {
	const text = "com.apple.backupd"
	v := []byte(backupValue)
	trailer := v[len(v)-32:]
	table := binary.BigEndian.Uint64(trailer[24:])
	if trailer[6] != 1 || trailer[7] != 1 || binary.BigEndian.Uint64(trailer[8:]) != 1 || binary.BigEndian.Uint64(trailer[16:]) != 0 || table != uint64(len(v)-33) {
		t.Fatalf("the trailer is % x", trailer)
	}
	object := v[v[table]:table]
	if string(v[:8]) != "bplist00" || object[0] != 0x5f || object[1] != 0x10 || int(object[2]) != len(text) || string(object[3:]) != text {
		t.Errorf("the object is %q", object)
	}
}
