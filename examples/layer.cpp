// A layer in C++: a device and a plan that release themselves, vectors as operands, an exception for each failure.
//   c++ -std=c++17 layer.cpp $(pkg-config --cflags --libs faltung)
#include <cstdio>
#include <faltung/faltung.hpp>
#include <vector>

int main() {
  try {
    const faltung::device device = faltung::device::cpu();
    const falt_problem problem = faltung::parse("forward n=1 c=3 h=32 w=32 k=8 r=3 s=3 pad=1 act=relu");
    std::vector<float> x(3 * 32 * 32, 1.0f), w(8 * 3 * 3 * 3, 0.5f), y(8 * 32 * 32);

    const faltung::plan plan(device, problem);
    plan.execute_host(faltung::span<const float>(x), faltung::span<const float>(w), faltung::span<float>(y));
    std::printf("%s: %s: an inner result is %g, a corner's is %g\n", device.name().c_str(), plan.print().c_str(),
                static_cast<double>(y[5 * 32 + 5]), static_cast<double>(y[0]));
    return y[5 * 32 + 5] == 13.5f && y[0] == 6.0f ? 0 : 1;
  } catch (const faltung::error &error) {
    std::fprintf(stderr, "%s: %s\n", falt_status_name(error.status()), error.what());
    return 1;
  }
}
