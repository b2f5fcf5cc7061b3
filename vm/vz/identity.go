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

// identityFile keeps a machine's identifier in its state directory: the machine's
// address in the network comes from it.
const identityFile = "machine-identifier"

// keptIdentity returns the identifier kept in a state directory, or a new one,
// which it keeps. One that is damaged is replaced: nothing is lost with it but the
// address. Without a directory every machine is a new one.
func keptIdentity(dir string) (*vz.GenericMachineIdentifier, error) {
	const op = "keep machine identifier"
	path := filepath.Join(dir, identityFile)
	if dir != "" {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make the file readable for you, or remove it.")
		}
		if len(b) > 0 { // vz panics on nothing
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
		// These bytes are the framework's memory: no longer there than id is.
		if err := config.WriteFile(path, bytes.Clone(id.DataRepresentation())); err != nil {
			return nil, fault.Wrap(op, path, err)
		}
	}
	return id, nil
}

// fixedMAC derives an address from an identifier. All machines of a Mac are on
// one network, so that each must have its own; macOS leases addresses by it.
func fixedMAC(id *vz.GenericMachineIdentifier) net.HardwareAddr {
	sum := sha256.Sum256(id.DataRepresentation())
	const local, group = 2, 1
	sum[0] = sum[0]&^group | local
	return sum[:6]
}
