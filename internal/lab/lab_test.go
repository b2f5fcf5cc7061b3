package lab

import (
	"os"
	"testing"
)

func TestDebianKernel(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		k := DebianKernel(t, arch)
		for _, p := range []string{k.Image, k.Modules, Busybox(t, arch)} {
			if _, err := os.Stat(p); err != nil {
				t.Error(err)
			}
		}
	}
}
