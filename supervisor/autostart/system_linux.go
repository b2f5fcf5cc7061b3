package autostart

func system() manager { return systemd{} }
