/* The only list of solvers. Adding an algorithm adds its file, its declaration and one line here. */
#include "planner/planner.h"

const falt_solver *const falt_solvers[] = {
    NULL,
};
