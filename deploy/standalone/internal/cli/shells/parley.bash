# Completion of parley for bash: eval "$(parley completion bash)"
_parley() {
  local IFS=$'\n' line
  COMPREPLY=()
  while read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <(parley complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  # If the only completion ends with an equals sign, its value follows, so no space is added.
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _parley parley
