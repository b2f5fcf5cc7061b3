package config

import "strconv"

// Port is a TCP port, never 0.
type Port uint16

const portAllowed = "a port: 1 to 65535"

// ParsePort parses a port.
func ParsePort(text string) (Port, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, notAllowed("read port", text, portAllowed)
	}
	return Port(n), nil
}

// String returns the port in decimal.
func (p Port) String() string { return strconv.FormatUint(uint64(p), 10) }
