# Completion of parley for fish: parley completion fish | source
function __parley_complete
    set -l words (commandline -opc) (commandline -ct)
    parley complete -- $words[2..-1] 2>/dev/null
end
complete -c parley -f -a '(__parley_complete)'
