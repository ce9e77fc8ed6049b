/* The only list of solvers. Adding an algorithm adds its file, its declaration and one line here. */
#include "planner/planner.h"

extern const falt_solver falt_solver_cuda_direct;
extern const falt_solver falt_solver_cuda_generic;
extern const falt_solver falt_solver_direct;
extern const falt_solver falt_solver_generic;
extern const falt_solver falt_solver_reference;
extern const falt_solver falt_solver_separable;

const falt_solver *const falt_solvers[] = {
    &falt_solver_direct,
    &falt_solver_separable,
    &falt_solver_generic,
    &falt_solver_reference,
    &falt_solver_cuda_direct,
    &falt_solver_cuda_generic,
    NULL,
};
