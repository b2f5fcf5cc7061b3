//go:build darwin || vzstandin

package vz

var (
	NativeArch = nativeArch
	Explain    = explain

	KernelArgs   = kernelArgs
	CheckVersion = checkVersion
)
