package doctor

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets/stores"
	"osaurus-sandbox/vm"
)

// secretStore: agents' secrets can be kept and read. Without it guests run, but
// what they ask for is refused.
func secretStore(ctx context.Context, h config.Home) vm.Finding {
	f := vm.Finding{What: "secrets", Status: vm.FindingOK}
	file, err := config.Load(h.SettingsFile())
	if err == nil {
		which := file.Settings().Secrets
		f.Detail, err = stores.Open(which, h, nil).Check(ctx)
	}
	if err != nil {
		f.Status, f.Detail, f.Mend = vm.FindingLimited, err.Error(), fault.AdviceOf(err)
	}
	return f
}
