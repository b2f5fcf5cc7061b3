//go:build darwin || vzstandin

package vz

import (
	"testing"

	"github.com/Code-Hex/vz/v3"
)

// All machines are on one network: each has its own address, always the same.
func TestFixedMAC(t *testing.T) {
	id, err := vz.NewGenericMachineIdentifier()
	if err != nil {
		t.Fatal(err)
	}
	other, err := vz.NewGenericMachineIdentifier()
	if err != nil {
		t.Fatal(err)
	}
	mac := fixedMAC(id)
	if mac[0]&3 != 2 || len(mac) != 6 {
		t.Errorf("%v is no local address of one machine", mac)
	}
	if fixedMAC(id).String() != mac.String() || fixedMAC(other).String() == mac.String() {
		t.Error("a machine's address is not its own")
	}
}
