package protocol

import "path"

// Paths of the bridge, in rooms and in the guest. Package bridge/wire has copies for the shim.
const (
	BridgeSocket = "/run/osaurus-bridge.sock"
	TokenDir     = "/run/osaurus" // holds USER.token
)

// ShimPath is the program that calls the bridge.
const ShimPath = "/usr/local/bin/osaurus-host"

// SystemPath is the PATH of commands.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// RootHome is the home directory of the guest's root user.
const RootHome = "/root"

// RootEnvironment is the environment of commands that run as the guest's root user.
func RootEnvironment() []string {
	return []string{"HOME=" + RootHome, "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "LANG=C.UTF-8", "PATH=" + SystemPath}
}

// Folder resolves a requested working directory against the usual one.
func Folder(usual string, asked []byte) string {
	if path.IsAbs(string(asked)) {
		return string(asked)
	}
	return path.Join(usual, string(asked))
}

// Texts converts a message's arguments or variables, which may hold any byte but NUL.
func Texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// Bytes undoes Texts.
func Bytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
