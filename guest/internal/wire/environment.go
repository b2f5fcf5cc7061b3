package wire

// SystemPath is where the programs of a distribution are.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// RootHome is the home of the guest's own root.
const RootHome = "/root"

// RootEnvironment is what programs of the guest's own root are started with.
func RootEnvironment() []string {
	return []string{"HOME=" + RootHome, "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "LANG=C.UTF-8", "PATH=" + SystemPath}
}

// Texts are arguments or variables of a message, Bytes what a message has them as:
// they may hold any byte but NUL.
func Texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// Bytes is what Texts reads.
func Bytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
