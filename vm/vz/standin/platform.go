package vz

import (
	"bytes"
	"crypto/rand"
)

type PlatformConfiguration interface {
	nsObject
	platformConfiguration()
}

type basePlatformConfiguration struct{}

func (*basePlatformConfiguration) platformConfiguration() {}

type GenericPlatformConfiguration struct {
	*pointer
	*basePlatformConfiguration
	identifier *GenericMachineIdentifier
}

type GenericPlatformConfigurationOption func(*GenericPlatformConfiguration) error

func NewGenericPlatformConfiguration(opts ...GenericPlatformConfigurationOption) (*GenericPlatformConfiguration, error) {
	p := &GenericPlatformConfiguration{}
	for _, o := range opts {
		if err := o(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func WithGenericMachineIdentifier(m *GenericMachineIdentifier) GenericPlatformConfigurationOption {
	return func(p *GenericPlatformConfiguration) error {
		if len(m.data) == 0 {
			raise("the machine identifier is nil")
		}
		p.identifier = m
		return nil
	}
}

type GenericMachineIdentifier struct {
	*pointer
	data []byte
}

// identifierMagic begins the data of an identifier.
var identifierMagic = []byte("bplist00")

const identifierLen = 24

func NewGenericMachineIdentifier() (*GenericMachineIdentifier, error) {
	data := make([]byte, identifierLen)
	rand.Read(data)
	copy(data, identifierMagic)
	return &GenericMachineIdentifier{data: data}, nil
}

// NewGenericMachineIdentifierWithData panics on an empty slice, as the real
// one does, and makes an object of nothing of other bad data.
func NewGenericMachineIdentifierWithData(b []byte) (*GenericMachineIdentifier, error) {
	_ = b[0]
	if len(b) != identifierLen || !bytes.HasPrefix(b, identifierMagic) {
		return &GenericMachineIdentifier{}, nil
	}
	return &GenericMachineIdentifier{data: bytes.Clone(b)}, nil
}

func (g *GenericMachineIdentifier) DataRepresentation() []byte { return g.data }
