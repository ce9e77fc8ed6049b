"""Explains a layer: every candidate with its predicted time, or the reason why it cannot run."""
import faltung

why = faltung.explain("forward n=4 c=32 h=28 w=28 k=32 r=3 s=3 pad=1 act=relu")
print(why)
slower = [c for c in why if c.rejected is None and not c.chosen]
gain = slower[0].predicted_seconds / why.chosen.predicted_seconds
print(f"{why.chosen.solver} is {gain:.2f} times as fast as {slower[0].solver}")
