# To be sourced: expect WHAT CONDITION, an awk expression; prints both, and sets failed=1 where it does not hold.
failed=0
expect() {
  if awk "BEGIN { exit !($2) }"; then
    echo "  $1: yes"
  else
    echo "  $1: NO"
    failed=1
  fi
}
