package autostart

func system() manager { return launchd{} }
