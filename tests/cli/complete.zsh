#!/usr/bin/env zsh
# What Tab makes of a command line in an interactive zsh: complete.zsh DIRECTORY LINE. The directory holds _faltung.
zmodload zsh/zpty
export FPATH=$1:$FPATH TERM=dumb
zpty shell "zsh -f -i"
zpty -w shell 'autoload -U compinit && compinit -u -D; tab() { zle complete-word; print -r -- "[[$BUFFER]]"; exit }'
zpty -w shell $'zle -N tab; bindkey "^I" tab; PS1=; stty -echo'
zpty -w -n shell "$2"$'\t'
zpty -r shell output '*\[\[faltung*\]\]*' || exit 1
output=${output##*\[\[}
print -r -- ${output%%\]\]*}
