package doctor

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/vm"
)

// inference: programs in guests can ask a model. Whether it answers is seen when
// one does. A file that cannot be read is a finding of its own.
func inference(h config.Home) vm.Finding {
	f := vm.Finding{What: "inference", Status: vm.FindingOK, Detail: "no endpoint is set (inference.baseURL)"}
	file, err := config.Load(h.SettingsFile())
	if err != nil {
		f.Detail = "unknown, as the settings are"
		return f
	}
	switch s := file.Settings().Inference; {
	case s.BaseURL == "":
	case s.Model == "":
		f.Status, f.Detail, f.Mend = vm.FindingLimited, string(s.BaseURL)+" is not told which model", "osaurus-sandbox config set inference.model=NAME"
	default:
		f.Detail = string(s.Model) + " at " + string(s.BaseURL)
	}
	return f
}
