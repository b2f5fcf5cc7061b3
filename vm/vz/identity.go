//go:build darwin || vzstandin

package vz

import (
	"bytes"
	"crypto/sha256"
	"net"
	"os"
	"path/filepath"

	"github.com/Code-Hex/vz/v3"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// identityFile stores a machine's identifier in its state directory. The machine's
// network address is derived from it.
const identityFile = "machine-identifier"

// keptIdentity returns the identifier stored in a state directory, or stores a new one.
// It replaces a damaged one, which only changes the machine's address.
func keptIdentity(dir string) (*vz.GenericMachineIdentifier, error) {
	const op = "keep machine identifier"
	path := filepath.Join(dir, identityFile)
	if dir != "" {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make the file readable for you, or remove it.")
		}
		if len(b) > 0 { // vz panics on an empty slice
			id, err := vz.NewGenericMachineIdentifierWithData(b)
			if err != nil {
				return nil, explain(op, path, err)
			}
			if bytes.Equal(id.DataRepresentation(), b) {
				return id, nil
			}
		}
	}
	id, err := vz.NewGenericMachineIdentifier()
	if err != nil {
		return nil, explain(op, path, err)
	}
	if dir != "" {
		// Clone: the bytes are in the framework's memory and freed with id.
		if err := config.WriteFile(path, bytes.Clone(id.DataRepresentation())); err != nil {
			return nil, fault.Wrap(op, path, err)
		}
	}
	return id, nil
}

// fixedMAC derives a MAC address from an identifier. Machines of a Mac share a network,
// so each needs its own. macOS leases IP addresses by it.
func fixedMAC(id *vz.GenericMachineIdentifier) net.HardwareAddr {
	sum := sha256.Sum256(id.DataRepresentation())
	const local, group = 2, 1
	sum[0] = sum[0]&^group | local
	return sum[:6]
}
