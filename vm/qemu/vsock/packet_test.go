//go:build linux

package vsock

import (
	"encoding/hex"
	"testing"
)

// TestHeader checks the layout of a header: that of struct virtio_vsock_hdr.
func TestHeader(t *testing.T) {
	h := header{srcCID: 3, dstCID: 2, srcPort: 0x11223344, dstPort: 1024, len: 5, typ: typeStream, op: opRW, flags: 6, bufAlloc: 0x10000, fwdCnt: 7}
	const want = "0300000000000000" + "0200000000000000" + "44332211" + "00040000" + "05000000" + "0100" + "0500" + "06000000" + "00000100" + "07000000"
	if got := hex.EncodeToString(h.bytes()); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}
