package service

func system() manager { return systemd{} }
