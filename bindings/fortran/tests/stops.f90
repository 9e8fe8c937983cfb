! Without stat an error ends the program with its message.
program stops
  use stillframe
  implicit none
  type(stillframe_observer) :: observer

  call observer%open('nobody-publishes-this')
  print '(a)', 'it went on'
end program
