#!/bin/sh
# Stands in for Open MPI's mpiexec, and runs nothing. With host b among its hosts, it prints what mpiexec prints if rank 1 is killed there before all ranks
# run: nothing that names it, but reports of daemons, one of them after text without a line end. Without b, all is well.
case " $* " in
  *" -host "*b:1*) ;;
  *) echo "all is well"; exit 0 ;;
esac
case " $* " in *" --mca state_base_verbose 1 "*) reports=yes ;; esac
report() { [ "$reports" != yes ] || echo "[$1 ACTIVATE $2 STATE $3:1"; }
report "b:00053] [[5,0],1]" "PROC [[5,1],1]" "RUNNING AT ../../orte/mca/odls/base/odls_base_default_fns.c"
printf '[1,0]<stdout>:unfinished'
report "b:00053] [[5,0],1]" "PROC [[5,1],1]" "ABORTED BY SIGNAL AT ../../orte/mca/odls/base/odls_base_default_fns.c"
report "a:00046] [[5,0],0]" "PROC [[5,1],1]" "ABORTED BY SIGNAL AT ../../orte/mca/plm/base/plm_base_receive.c"
echo "Primary job  terminated normally, but 1 process returned"
echo "a non-zero exit code. Per user-direction, the job has been aborted."
report "a:00046] [[5,0],0]" "JOB [5,1]" "RUNNING AT ../../orte/mca/state/base/state_base_fns.c"
exit 137
