package wire

import (
	"testing"

	"osaurus-sandbox/guest/protocol"
)

func TestSameAsInGuest(t *testing.T) {
	if Socket != protocol.BridgeSocket || TokenDir != protocol.TokenDir {
		t.Errorf("%s and %s differ from %s and %s in guest/protocol", Socket, TokenDir, protocol.BridgeSocket, protocol.TokenDir)
	}
}
