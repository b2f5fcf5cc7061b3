//go:build !darwin

package secretservice

const absentAdvice = "Install a keyring and log in again: sudo apt-get install gnome-keyring dbus-user-session. Or keep secrets in an encrypted file, which is weaker: osaurus-sandbox config set secrets=file"
