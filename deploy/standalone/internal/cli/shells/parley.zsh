#compdef parley
# Completion of parley for zsh: eval "$(parley completion zsh)", after compinit
_parley() {
  local -a found shown
  local line value
  while IFS= read -r line; do
    value=${line%%$'\t'*}
    found+=("$value")
    shown+=("$value  ${line#*$'\t'}")
  done < <(parley complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ! ${#found} )); then
    _files
  elif [[ ${#found} -eq 1 && $found[1] == *= ]]; then
    compadd -Q -S '' -d shown -a found
  else
    compadd -Q -l -d shown -a found
  fi
}
compdef _parley parley
