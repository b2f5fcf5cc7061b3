package plugins

// advise warns of what is taken and will not do what its author meant.
func (v *validator) advise(r Recipe) {
	if len(r.Tools) == 0 && r.Daemon == nil && len(r.Events.Subscribe) == 0 {
		v.warn("$.tools", "nothing", "Add a tool, a daemon or a subscription.", "a plugin without any does nothing that a model could see")
	}
	for i, t := range r.Tools {
		for _, key := range sortedKeys(t.Extra) {
			v.unknown(item("$.tools", i), key)
		}
		for _, name := range sortedKeys(t.Parameters) {
			for _, key := range sortedKeys(t.Parameters[name].Extra) {
				v.unknown(below(below(item("$.tools", i), "parameters"), string(name)), key)
			}
		}
	}
	for _, key := range sortedKeys(r.Permissions.Extra) {
		v.unknown("$.permissions", key)
	}
	if r.Daemon != nil {
		for _, key := range sortedKeys(r.Daemon.Extra) {
			v.unknown("$.daemon", key)
		}
	}
	for _, key := range sortedKeys(r.Events.Extra) {
		v.unknown("$.events", key)
	}
	for i, s := range r.Events.Subscribe {
		for _, key := range sortedKeys(s.Extra) {
			v.unknown(item("$.events.subscribe", i), key)
		}
	}
}

func (v *validator) unknown(path, key string) {
	v.warn(below(path, key), "unknown-key", "See that it is spelled right: osaurus-sandbox plugin schema", "is kept, and means nothing here")
}
