package config

import "strconv"

// Port is where a program listens, by TCP: 8080. There is no port 0.
type Port uint16

const portAllowed = "a port: 1 to 65535"

// ParsePort reads a port.
func ParsePort(text string) (Port, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, notAllowed("read port", text, portAllowed)
	}
	return Port(n), nil
}

// String is the port as it is written.
func (p Port) String() string { return strconv.FormatUint(uint64(p), 10) }
