package service

func system() manager { return launchd{} }
