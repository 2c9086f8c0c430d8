package openapitest

// packages are those whose tests hold every answer against the document.
var packages = map[string]bool{"ingress": true, "httpapi": true}

// elsewhere lists the answers that a package's tests need not see: the other package that does, or the reason why
// none does. "* → 500" is that status of every operation.
var elsewhere = map[string]string{}
