package boot

var OpenNIC = openNIC
