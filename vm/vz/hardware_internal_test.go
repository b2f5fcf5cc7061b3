//go:build darwin || vzstandin

package vz

import (
	"testing"

	"osaurus-sandbox/vm"
)

func TestFixedMAC(t *testing.T) {
	one, other := &vm.Config{Name: "a", ConsoleLog: "/1"}, &vm.Config{Name: "a", ConsoleLog: "/2"}
	mac := fixedMAC(one)
	if len(mac) != 6 || mac[0]&3 != 2 {
		t.Errorf("%v is not a local unicast address", mac)
	}
	if fixedMAC(one).String() != mac.String() || fixedMAC(other).String() == mac.String() {
		t.Error("a machine's address is not its own")
	}
}
