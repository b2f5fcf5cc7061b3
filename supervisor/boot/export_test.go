package boot

var MakeFolders = makeFolders
