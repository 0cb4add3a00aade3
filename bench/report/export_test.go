package report

// Policy is what a page may do.
var Policy = policy
