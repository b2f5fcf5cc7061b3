package lab

import "testing"

func TestPacks(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		if err := BusyboxPack(t, arch).Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if p, ok := AlpinePack(t, arch); ok {
			if err := p.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
	}
}
