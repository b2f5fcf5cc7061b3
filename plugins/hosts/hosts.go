// Package hosts reads which hosts a shell command names, as a shell would read it.
package hosts

// Found is what a command says of hosts.
type Found struct {
	// Hosts are the names and addresses, in small letters, each once, in their order.
	Hosts []string
	// Unclear is why there may be others: the first thing that cannot be known before
	// the command runs. It is empty if everything was understood.
	Unclear string
}

// Understood reports whether the command names no other hosts, as far as reading can tell.
func (f Found) Understood() bool { return f.Unclear == "" }
