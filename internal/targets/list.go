package main

// target is what one figure is to be.
type target struct {
	benchmark string // as go test names it, without Benchmark; the machine may follow: Boot/amd64 is Boot/amd64/tcg
	unit      string
	bound     bound
	limit     float64
}

// bound is the side on which a figure is good.
type bound string

const (
	most  bound = "at most"
	least bound = "at least"
)

func (t target) met(figure float64) bool {
	if t.bound == least {
		return figure >= t.limit
	}
	return figure <= t.limit
}

// list is every target. Ratios are of the same minutes of one computer; the few seconds are far from
// what is measured, and memory is hardly a computer's own.
func list() []target {
	return []target{
		{"Boot/amd64", "boot/floor", most, 1.6},
		{"Boot/arm64", "boot/floor", most, 1.6},
		{"Up", "up/floor", most, 1.7}, // two shares and a disk to mount, two programs to start
		{"Resident/amd64", "host-MiB", most, 60},
		{"Resident/arm64", "host-MiB", most, 60},
		{"Resident/amd64", "guest-MiB", most, 30},
		{"Resident/arm64", "guest-MiB", most, 30},
		{"Exec/true", "exec/ssh", most, 0.38},
		{"Exec/true", "exec/fork+exec", most, 1.3},
		{"Exec/static-true", "exec/fork+exec", most, 2.5},
		{"Exec/new_agent", "first/exec", most, 5},
		{"Shell/inside", "shell/pty", most, 1.3},
		{"Stream", "stream/vsock", least, 0.7},
		{"Bridge/1_clients", "bridge/raw", least, 0.6},
		{"Bridge/64_clients", "bridge/raw", least, 0.6},
		{"Bridge/osaurus-host", "shim/(true+request)", most, 1.5},
		{"ReadFile", "read/ssh", most, 0.35},
		{"LargeFile/disk", "read/vsock", least, 0.5},
		{"LargeFile/disk", "write/vsock", least, 0.5},
		{"LargeFile/share", "read/vsock", least, 0.5},
		{"LargeFile/share", "write/vsock", least, 0.5},
		{"Search/text", "search/rg", most, 1.3},
		{"Search/expression", "search/rg", most, 1.3},
		{"PluginTool", "plugin/exec", most, 1.2},
		{"ManyPlugins", "list-ms", most, 50},
		{"ManyPlugins", "verify-s", most, 10}, // 3 where guests are not emulated
		{"FS", "write-time/virtiofsd", most, 1 / 0.95},
		{"FS", "read-time/virtiofsd", most, 1 / 0.95},
		{"FS", "create+stat+unlink-time/virtiofsd", most, 1.1},
		{"Vsock", "round-trip/tcp", most, 1},
		{"Vsock", "time-to-guest/tcp", most, 1},
		{"Vsock", "time-from-guest/tcp", most, 1},
	}
}
