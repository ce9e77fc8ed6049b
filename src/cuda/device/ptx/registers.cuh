// Lists of accumulator registers for asm: SUMS_n(D) are operands 0 to n - 1, where D(i) is accumulator i, and NAMES_n
// are their names in the instruction. asm takes literals only, so each list is a macro that extends the next shorter
// one.
#pragma once

#define SUMS_4(D, i) "+f"(D(i)), "+f"(D(i + 1)), "+f"(D(i + 2)), "+f"(D(i + 3))
#define SUMS_8(D) SUMS_4(D, 0), SUMS_4(D, 4)
#define SUMS_12(D) SUMS_8(D), SUMS_4(D, 8)
#define SUMS_16(D) SUMS_12(D), SUMS_4(D, 12)
#define SUMS_20(D) SUMS_16(D), SUMS_4(D, 16)
#define SUMS_24(D) SUMS_20(D), SUMS_4(D, 20)
#define SUMS_28(D) SUMS_24(D), SUMS_4(D, 24)
#define SUMS_32(D) SUMS_28(D), SUMS_4(D, 28)
#define SUMS_48(D) SUMS_32(D), SUMS_4(D, 32), SUMS_4(D, 36), SUMS_4(D, 40), SUMS_4(D, 44)
#define SUMS_56(D) SUMS_48(D), SUMS_4(D, 48), SUMS_4(D, 52)
#define SUMS_64(D) SUMS_56(D), SUMS_4(D, 56), SUMS_4(D, 60)
#define SUMS_96(D)                                                                                                     \
  SUMS_64(D), SUMS_4(D, 64), SUMS_4(D, 68), SUMS_4(D, 72), SUMS_4(D, 76), SUMS_4(D, 80), SUMS_4(D, 84), SUMS_4(D, 88), \
      SUMS_4(D, 92)
#define SUMS_128(D)                                                                                          \
  SUMS_96(D), SUMS_4(D, 96), SUMS_4(D, 100), SUMS_4(D, 104), SUMS_4(D, 108), SUMS_4(D, 112), SUMS_4(D, 116), \
      SUMS_4(D, 120), SUMS_4(D, 124)

#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_12 NAMES_8 ", %8, %9, %10, %11"
#define NAMES_16 NAMES_12 ", %12, %13, %14, %15"
#define NAMES_20 NAMES_16 ", %16, %17, %18, %19"
#define NAMES_24 NAMES_20 ", %20, %21, %22, %23"
#define NAMES_28 NAMES_24 ", %24, %25, %26, %27"
#define NAMES_32 NAMES_28 ", %28, %29, %30, %31"
#define NAMES_48 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                                                          \
  NAMES_64                                                                                \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80" \
  ", %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                                                    \
  NAMES_96                                                                           \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109" \
  ", %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
