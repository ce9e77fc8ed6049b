/* The only list of solvers. Adding an algorithm adds its file, its declaration and one line here. */
#include "planner/planner.h"

extern const falt_solver falt_solver_reference;

const falt_solver *const falt_solvers[] = {
    &falt_solver_reference,
    NULL,
};
