# Completion of parley for bash: eval "$(parley completion bash)"
_parley() {
  local IFS=$'\n' line
  COMPREPLY=()
  while read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <(parley complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  # A flag that takes its value behind an equals sign is to be gone on with.
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _parley parley
